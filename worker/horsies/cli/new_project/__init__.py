"""What `horsies new` makes: each file with NAME in place of the project's name, and REQUIREMENT of horsies."""
