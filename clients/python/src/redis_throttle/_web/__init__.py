"""What the integrations for HTTP share: whom a request counts for, what becomes of it, and what its response says."""
