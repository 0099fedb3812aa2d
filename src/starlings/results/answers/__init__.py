"""Answers to the questions that a model was made for: ratios, predictions, contrasts, effects."""
