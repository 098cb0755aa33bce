//! Spans to an OpenTelemetry collector.
