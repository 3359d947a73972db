"""Who may talk to what: certificates between the parts, API keys at the gateway, a token for administration."""
