"""Learning algorithms: pure functions from a batch of experience to a better learner."""
