"""Tools that test and measure any Kafka broker; the main entry is the command kwire conformance."""
