"""The configuration of an application, validated as a whole."""
