#!/usr/bin/env python
"""A shop with Django whose orders and their confirmations are one transaction, of the ORM and of SQL functions.

Once, as the owner of the dispatcher's schema:

    psql "$DISPATCHER_DATABASE_URL" --file ops/recipes/sql/grants.sql
    dispatcher workflows put ops/recipes/order_confirmed.yaml --activate

Then, with the packages django and psycopg (the dispatcher's own package is not needed):

    export SHOP_DATABASE_URL=postgresql://shop@localhost/NAME SHOP_SECRET_KEY=…
    ops/recipes/django/manage.py migrate
    ops/recipes/django/manage.py runserver
    curl localhost:8000/orders -H 'Content-Type: application/json' -d '{"email": "ann@example.org", "name": "Ann"}'
    curl localhost:8000/orders/1
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)
