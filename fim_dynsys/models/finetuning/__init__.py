"""Fine-tuning of any field to one data set."""
