"""What a run will do and use, settled before anything heavy is imported."""
