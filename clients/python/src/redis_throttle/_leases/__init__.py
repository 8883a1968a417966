"""What lasts longer than a call: leases, admissions, releases that are repeated, waiting until a retry makes sense."""
