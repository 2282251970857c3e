"""What is looked at while a run trains: what it learns and costs, why it does not learn, its loggers."""
