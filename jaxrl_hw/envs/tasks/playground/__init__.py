"""The environments of MuJoCo Playground."""
