"""What may be pointed at any broker, kwire or another: the way in is `kwire conformance`."""
