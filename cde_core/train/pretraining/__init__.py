"""What a T5 learns from texts alone: to fill in what was cut out of them."""
