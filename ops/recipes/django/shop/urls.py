"""Addresses. There is no page with a form here, so nothing that asks for a CSRF token either."""

from django.urls import path

from . import views

urlpatterns = [path("orders", views.place), path("orders/<int:number>", views.show)]
