"""Front ends: each turns one kind of description into constraints."""
