"""What a schema means, whatever its keywords: a shape for each JSON type, its algebra, and which shapes are empty."""
