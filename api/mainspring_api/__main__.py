"""`python -m mainspring_api` runs the API."""

from mainspring_api.server import main

raise SystemExit(main())
