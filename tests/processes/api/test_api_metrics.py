"""The API counts what it answered, on a loopback port of its own."""

from __future__ import annotations

import http.client
import json

from processes.api.stage import ApiProcess


def test_registrations_and_answers_are_counted(api: ApiProcess) -> None:
    """A registration and a refusal each show in /metrics; the API itself has no such route."""
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=10)
    for schedule in ("0 9 * * 1", "0 25 * * *"):
        body = json.dumps({"name": "counted", "schedule": schedule})
        connection.request("POST", "/api/v1/jobs", body, {"content-type": "application/json"})
        connection.getresponse().read()
    connection.close()

    scrape = http.client.HTTPConnection("127.0.0.1", api.metrics_port, timeout=10)
    scrape.request("GET", "/metrics")
    lines = scrape.getresponse().read().decode().splitlines()
    scrape.close()
    figures = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(figures["mainspring_registered_total"]) >= 1
    assert float(figures['mainspring_requests_total{method="POST",status="201"}']) >= 1
    assert float(figures['mainspring_requests_total{method="POST",status="422"}']) >= 1
