"""Models from elsewhere become programs in the burn dialect; one package a source."""
