"""Fine-tuning of networks whose fields are decoded point by point."""
