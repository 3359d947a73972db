"""What outlives a restart, and what gateways share: a database, and a journal for when it is down."""
