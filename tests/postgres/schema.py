"""Describes a schema from the catalogs, the same on every supported version of Postgres."""

from __future__ import annotations

import psycopg

QUERIES = {
    "columns": """
        SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
            || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
            || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')
        FROM pg_class AS c
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
        ORDER BY c.relname, a.attnum
    """,
    "options": """
        SELECT c.relname || ' ' || array_to_string(c.reloptions, ', ')
        FROM pg_class AS c
        WHERE c.relnamespace = 'public'::regnamespace AND c.reloptions IS NOT NULL
        ORDER BY 1
    """,
    # 'n' came with Postgres 18; NOT NULL is among the columns.
    "constraints": """
        SELECT r.conrelid::regclass || ' ' || r.conname || ' ' || pg_get_constraintdef(r.oid)
        FROM pg_constraint AS r
        WHERE r.connamespace = 'public'::regnamespace AND r.contype IN ('c', 'f', 'p', 'u', 'x')
        ORDER BY 1
    """,
    "indexes": """
        SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname
    """,
    "partitions": """
        SELECT c.relname || ' ' || pg_get_expr(c.relpartbound, c.oid)
        FROM pg_class AS c
        WHERE c.relispartition AND c.relkind = 'r'
        ORDER BY 1
    """,
    "sequences": """
        SELECT sequencename || ' ' || data_type FROM pg_sequences
        WHERE schemaname = 'public'
        ORDER BY 1
    """,
    "enums": """
        SELECT t.typname || ' ' || string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder)
        FROM pg_type AS t
        JOIN pg_enum AS e ON e.enumtypid = t.oid
        GROUP BY t.typname
        ORDER BY 1
    """,
    "functions": """
        SELECT pg_get_functiondef(p.oid) FROM pg_proc AS p
        WHERE p.pronamespace = 'public'::regnamespace
        ORDER BY p.proname
    """,
}


def describe_schema(dsn: str) -> dict[str, list[str]]:
    """Return the public schema as lists of lines."""
    with psycopg.connect(dsn) as connection:
        return {
            kind: [line for (line,) in connection.execute(query.encode())]
            for kind, query in QUERIES.items()
        }
