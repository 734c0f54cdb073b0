"""What an application says about itself, validated as a whole."""
