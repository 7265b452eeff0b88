"""FCM: hands push messages to Firebase Cloud Messaging by its HTTP v1 API, one device a call."""
