"""The commands that change something, made of the records of the verbs."""
