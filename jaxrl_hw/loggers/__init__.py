"""What a run reports: the console's live line, metrics.jsonl and TensorBoard files."""
