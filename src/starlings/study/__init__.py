"""A study: one TOML file that names model, data, network, sampler and lengths."""
