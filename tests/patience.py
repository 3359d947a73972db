"""How long tests wait for what an idle machine has at once: giving up early teaches nothing."""

PATIENCE_S = 120
