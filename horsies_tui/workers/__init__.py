"""What the Workers screen says and in which order, without a widget."""
