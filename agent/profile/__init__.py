"""The typed profile: what a recipe says only in prose; layers, each value with its origin."""
