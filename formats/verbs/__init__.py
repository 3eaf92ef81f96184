"""What users do with models: one module for each verb, and what several verbs share."""
