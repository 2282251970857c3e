"""The engine behind samplers: partners by class, kernel or distance, groups and boxes of samples."""
