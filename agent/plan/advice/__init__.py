"""What is known to bite in a launch, one rule a file."""
