"""What a timeline means: bubbles, utilisation, and where every second went."""
