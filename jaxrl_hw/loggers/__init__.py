"""What a run tells: the console's live line, metrics.jsonl and TensorBoard files."""
