"""The steps that verbs share: a model is opened, a plan is made and executed, and files are replaced."""
