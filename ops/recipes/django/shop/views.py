"""Placing an order, and looking at one."""

import json

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET, require_POST

from . import dispatcher
from .models import Order


@require_POST
def place(request: HttpRequest) -> HttpResponse:
    """Place an order. It and the run that confirms it are committed together, or neither is."""
    given = json.loads(request.body)
    try:
        with transaction.atomic():
            order = Order.objects.create(email=given["email"], name=given.get("name", ""))
            # Without a name it cannot be confirmed: the workflow says so, and the order is not placed.
            said = {name: given[name] for name in ("email", "name") if given.get(name)}
            order.run = dispatcher.trigger("order_confirmed", {"order": {"id": order.pk, **said}}, f"order-{order.pk}")
            order.save()
    except dispatcher.Refused as refused:
        return JsonResponse({"detail": str(refused), "faults": refused.faults}, status=422)
    return JsonResponse({"id": order.pk, "run": order.run}, status=201)


@require_GET
def show(_: HttpRequest, number: int) -> HttpResponse:
    """An order, and how far its confirmation is."""
    order = get_object_or_404(Order, pk=number)
    return JsonResponse({"id": order.pk, "confirmation": None if order.run is None else dispatcher.status(order.run)})
