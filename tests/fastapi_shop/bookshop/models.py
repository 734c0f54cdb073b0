"""The tables of the shop."""

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from uuid import UUID

from sqlalchemy import ForeignKey, Numeric, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class OrderState(StrEnum):
    NEW = "new"
    PAID = "paid"
    REFUSED = "refused"


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    customer: Mapped[str]
    state: Mapped[OrderState] = mapped_column(default=OrderState.NEW)
    total: Mapped[Decimal] = mapped_column(Numeric(10, 2))
    receipt: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    lines: Mapped[list["Line"]] = relationship(cascade="all, delete-orphan", lazy="selectin")


class Line(Base):
    __tablename__ = "order_lines"

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[UUID] = mapped_column(ForeignKey("orders.id"))
    item: Mapped[str]
    count: Mapped[int]
    price: Mapped[Decimal] = mapped_column(Numeric(10, 2))
