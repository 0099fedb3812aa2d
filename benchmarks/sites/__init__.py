"""Sites as processes with a relay between them: how fast, how many kills, and how many sites."""
