"""Configuration: settings declared beside the code they steer, composed, loaded, checked and explained here."""
