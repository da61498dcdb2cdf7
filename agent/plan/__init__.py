"""Recipe, profiles and site become one resolved plan (pure)."""
