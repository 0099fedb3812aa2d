"""What comes out: draws with their names, in memory or in one netCDF file."""
