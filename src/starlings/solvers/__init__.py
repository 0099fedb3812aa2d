"""What an agent computes from its own potential: gradients, proximal points, minima."""
