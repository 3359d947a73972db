"""What the user says: the fleet file, validated once and frozen from then on."""
