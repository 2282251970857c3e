"""What is looked at while a run trains: why it does not learn, and where its numbers are logged."""
