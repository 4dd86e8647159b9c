"""What requests about the quorum of controllers have in common."""
