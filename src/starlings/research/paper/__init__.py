"""The paper's experiments, one file each: from settings to numbers to a figure."""
