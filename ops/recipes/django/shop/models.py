"""Orders."""

from django.db import models


class Order(models.Model):
    """An order, and the run that confirms it."""

    id = models.BigAutoField(primary_key=True)
    email = models.TextField()
    name = models.TextField()
    run = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return f"order {self.pk}"
