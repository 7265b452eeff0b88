"""Orders."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """The table of orders."""

    initial = True
    operations: ClassVar = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("email", models.TextField()),
                ("name", models.TextField()),
                ("run", models.BigIntegerField(null=True)),
            ],
        )
    ]
