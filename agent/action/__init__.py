"""Steps, the decision which one comes next, the budget, and the execution of one step."""
