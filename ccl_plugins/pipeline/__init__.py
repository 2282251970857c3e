"""A composition as data: choices, what they require of each other, the record; nothing is trained here."""
