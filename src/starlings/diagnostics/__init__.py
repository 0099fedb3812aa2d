"""Whether draws can be trusted: statistics, verdict, and Stein's identities."""
