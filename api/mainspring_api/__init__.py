"""HTTP API of mainspring: registration, reading, deletion and history of jobs.

The way of a registration: `body` reads the bytes within a size and a time,
`mainspring.registration` checks them, `registrar` gathers what arrives together into one
transaction, and the answer goes out after its commit.  Store calls run in threads (`calls`), never
on the event loop.  Whatever is refused becomes a problem (`problems`) that names the field.

`app.create_app` puts it together, `server.main` runs it as a process.
"""
