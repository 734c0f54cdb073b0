"""What a person does by hand: see first what would change, change it under guard, leave a trace, take it back."""
